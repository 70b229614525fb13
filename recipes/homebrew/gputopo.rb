# Homebrew on Linux: `python -m build --sdist`, then `brew install --formula recipes/homebrew/gputopo.rb`.
# For a tap, name the released sdist with its checksum instead; `brew update-python-resources` then
# writes a resource for each library, and `virtualenv_install_with_resources` takes the place of install.
class Gputopo < Formula
  include Language::Python::Virtualenv

  desc "Terminal explorer for the inside of a GPU node"
  url "file://#{File.expand_path("../../dist/gputopo-0.1.0.tar.gz", __dir__)}"
  version "0.1.0"
  license "MIT"

  depends_on :linux
  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    system libexec/"bin/python", "-m", "pip", "install", buildpath
    bin.install_symlink libexec/"bin/gputop", libexec/"bin/gputopo"
    man1.install "docs/gputop.1"
    generate_completions_from_executable(bin/"gputop", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/gputop --version")
    assert_match "healthy", shell_output("#{bin}/gputop check --quick --demo hgx-h100-8")
  end
end
