"""hostwheel: wheels and servers of llama.cpp built, and proved, for one named host."""

__version__ = "0.1.0"
