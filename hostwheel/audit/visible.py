"""Names and messages of an artifact as what they are: text, and never orders to a terminal."""


def visible(text: str) -> str:
    """What would not be seen, would reorder the line or end it, is seen as an escape."""
    return "".join(each if each.isprintable() else escaped(each) for each in text)


def escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
