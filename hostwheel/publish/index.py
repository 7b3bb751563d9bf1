"""The index that pip and uv read, as a function of the catalog.

One index is of the whole bucket (`simple/`, `simple-json/`), one of each recipe, a channel
(`a10g/simple/`). Each page lies under two keys, since a static key has one content type and one
body: with a slash at its end, which S3's REST endpoint and a CDN before it answer, and as
`index.html` or `index.json`, which website hosting and file servers look for. Links are relative,
and the same from both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from hostwheel.publish.catalog import Catalog, Entry
from hostwheel.publish.index_html import list_html, project_html
from hostwheel.publish.index_json import list_json, project_json
from hostwheel.publish.page import HTML, INDEX_CACHE, JSON, Page

INDEXED = ("wheel", "variant")  # what pip and uv install
