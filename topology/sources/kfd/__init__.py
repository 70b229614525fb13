"""AMD GPUs as the kernel knows them: KFD's topology and the files of amdgpu."""
