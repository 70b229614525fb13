# `nix-build recipes/nix` builds this checkout with the libraries of nixpkgs.
{ pkgs ? import <nixpkgs> { } }:

pkgs.python3Packages.buildPythonApplication {
  pname = "gputopo";
  version = "0.1.0";
  pyproject = true;
  src = pkgs.lib.cleanSource ../..;

  build-system = [ pkgs.python3Packages.setuptools ];
  dependencies = with pkgs.python3Packages; [
    click
    defusedxml
    msgspec
    networkx
    nvidia-ml-py
    platformdirs
    psutil
    textual
  ];

  nativeBuildInputs = [ pkgs.installShellFiles ];
  postInstall = ''
    installManPage docs/gputop.1
    for shell in bash zsh fish; do
      $out/bin/gputop completion $shell > gputop.$shell
    done
    installShellCompletion gputop.bash gputop.zsh gputop.fish
  '';

  # The tests want torch, a terminal and minutes.
  doCheck = false;
  pythonImportsCheck = [ "gputop" ];

  meta = {
    description = "A terminal explorer for the inside of a GPU node";
    license = pkgs.lib.licenses.mit;
    mainProgram = "gputop";
    platforms = pkgs.lib.platforms.linux;
  };
}
