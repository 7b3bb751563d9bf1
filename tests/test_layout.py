from hostwheel.artifact.extent import extent
from hostwheel.artifact.layout import named, pieces


def test_functions_side_by_side_and_apart() -> None:
    assert list(pieces(((0, 4, "a"), (4, 4, "b"), (16, 4, "c")))) == [
        (0, 4, 0),
        (4, 8, 4),
        (16, 20, 16),
    ]


def test_the_inner_function_owns_and_the_outer_goes_on_behind() -> None:
    nested = ((0, 100, "outer"), (10, 10, "inner"), (12, 2, "innermost"), (90, 50, "over"))
    assert list(pieces(nested)) == [
        (0, 10, 0),
        (10, 12, 10),
        (12, 14, 12),
        (14, 20, 10),
        (20, 90, 0),
        (90, 140, 90),
    ]


def test_one_without_size_reaches_to_the_next() -> None:
    assert list(pieces(((0, 0, "a"), (7, 0, "b")))) == [(0, 7, 0), (7, 1 << 64, 7)]
    assert list(pieces(())) == []


def test_unwind_tables_name_what_symbols_do_not() -> None:
    known = ((16, 4, "f"), (32, 0, "assembly"))
    unwound = ((16, 8), (32, 6), (64, 5))
    assert named(known, unwound) == ((16, 4, "f"), (32, 6, "assembly"), (64, 5, "0x40"))


def test_where_a_function_ends() -> None:
    plain = bytes.fromhex("90 c3 cc cc")
    assert extent(plain, 0x1000) == 2
    branching = bytes.fromhex("74 01 c3 90 c3 cc")  # je over the first ret
    assert extent(branching, 0x1000) == 5
    assert extent(bytes.fromhex("90 06 c3"), 0x1000) == 1
    assert extent(bytes.fromhex("06"), 0x1000) == 1
    assert extent(bytes.fromhex("90 90"), 0x1000) == 2
