"""The probe gemm."""
