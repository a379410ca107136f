"""Which changes of files are reported, and that reading files is none."""

from pathlib import Path
from queue import SimpleQueue

from watchdog.events import FileSystemEvent

from signalbox_tools.local.reloading.watcher import Watcher

SECONDS_MAX = 30.0


class Recorder(Watcher):
    """A watcher that keeps the kinds of the events that reach it."""

    kinds: set[str]

    def on_any_event(self, event: FileSystemEvent) -> None:
        self.kinds.add(event.event_type)
        super().on_any_event(event)


def test_files_that_are_read_cause_no_events_so_starting_processes_cannot_displace_a_change(tmp_path: Path) -> None:
    changes: SimpleQueue[list[Path]] = SimpleQueue()
    module, catalogue = tmp_path / "library" / "module.py", tmp_path / "infra" / "catalogue.yaml"
    for file in (module, catalogue):
        file.parent.mkdir()
        file.write_text("")
    watcher = Recorder(changes.put)
    watcher.kinds = set()
    watcher.watch(trees=[module.parent], folders=[catalogue.parent])
    watcher.start()
    for _ in range(100):
        module.read_text()
        catalogue.read_text()
    catalogue.write_text("functions: {}\n")
    assert changes.get(timeout=SECONDS_MAX) == [catalogue]
    watcher.stop()
    assert watcher.kinds == {"modified"}
