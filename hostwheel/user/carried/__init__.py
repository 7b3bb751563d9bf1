"""What every bundle carries to install itself. Standard library only, Python 3.8 and newer.

It lies in a bundle at the same path as here, beside copies of `errors`, `facts.cpuid` and
`facts.libc`.
"""
