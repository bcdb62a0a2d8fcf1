"""Where pairs and queries stand: one file per layout, LAYOUTS by name."""

from zoology_bench.tasks.layouts.base import Layout
from zoology_bench.tasks.layouts.official import Official
from zoology_bench.tasks.layouts.prefix import Prefix
from zoology_bench.tasks.layouts.probe import Probe
from zoology_bench.tasks.layouts.stream import Stream
from zoology_bench.tasks.layouts.triples import Triples

LAYOUTS: dict[str, type[Layout]] = {
    layout.name: layout for layout in (Official, Prefix, Stream, Triples, Probe)
}
