"""Versions that are numbers with points between: of glibc, GCC, CUDA, drivers."""


def numeric(version: str) -> tuple[int, ...]:
    """To compare by. ValueError for anything else."""
    return tuple(int(part) for part in version.split("."))
