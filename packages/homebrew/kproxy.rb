# A formula for a tap of one's own: brew install --build-from-source ./packages/homebrew/kproxy.rb
#
# pip brings the dependencies, whose wheels compile nothing; a formula of Homebrew's own would list each as a resource.
class Kproxy < Formula
  include Language::Python::Virtualenv

  desc "Protocol debugging proxy and packet inspector for Apache Kafka"
  homepage "https://github.com/kafka-kproxy/kproxy"
  license "Apache-2.0"
  head "https://github.com/kafka-kproxy/kproxy.git", branch: "main"

  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    system libexec/"bin/python", "-m", "pip", "install", "--verbose", "#{buildpath}[full]"
    bin.install_symlink libexec/"bin/kproxy"
    man1.install_symlink libexec/"share/man/man1/kproxy.1"
    generate_completions_from_executable(bin/"kproxy", "completion", shells: [:bash, :zsh, :fish])
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/kproxy --version") unless build.head?
    assert_match "Metadata", shell_output("#{bin}/kproxy schema show Metadata")
  end
end
