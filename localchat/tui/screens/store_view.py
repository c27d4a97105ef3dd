"""The chat screen's way to the store: what cannot be saved is said, and stays on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from textual.screen import Screen
from textual.widgets import Static

from localchat.chat.store import Node, StoreError
from localchat.tui.talk import Talk
from localchat.tui.widgets.banner import Banner
from localchat.tui.widgets.composer import Composer


class StoreView(Screen[None]):
    """Keeps what is typed, and watches whether all that was written is on the disk."""

    talk: Talk
    banner: Banner
    composer: Composer
    editing: Node | None = None
    """The message that is being changed: what is typed then is no draft."""
    ending = False
    """A reply is over and not yet laid out."""
    _problem = ""

    @property
    def writing(self) -> bool:
        """A reply is being written, as far as this screen is concerned."""
        return self.talk.writing is not None or self.ending

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What the store cannot do is said, and the screen goes on."""
        try:
            yield
        except StoreError as error:
            self.tell_store(error)

    def tell_store(self, error: StoreError) -> None:
        """Say what the store could not do."""
        self.notify(f"{error.message} {error.hint}", severity="error", timeout=10, markup=False)

    def keep_draft(self, text: str) -> None:
        """Keep what is typed and not sent."""
        if self.editing is not None:
            return
        try:
            self.talk.keep_draft("\n\n".join(filter(None, (*self.talk.waiting, text))))
        except StoreError as error:
            if not self.banner.pressing:
                self.banner.tell(f"What you write cannot be saved now: {error}", f"It stays here. {error.hint}")

    def tell_cut_off(self, cut: list[Node]) -> None:
        """Say that a crash cut a reply off, if it did, and how to go on."""
        if cut and cut[-1].text:
            words = "The last reply was cut off when localchat ended; what was written is here."
            self.banner.tell(words, "{continue-reply} goes on with it.")
        elif cut:
            self.banner.tell("The last reply was cut off before its first word.", "{regenerate} asks again.")

    def hand_back(self, *texts: str) -> None:
        """What was not sent goes back to where it was written."""
        self.composer.load_text("\n\n".join(filter(None, (*texts, *self.talk.waiting, self.composer.value))))
        self.talk.waiting.clear()
        self.show_waiting()

    def show_waiting(self) -> None:
        """How many messages wait to be sent, and how the first begins."""
        waiting = self.talk.waiting
        line = self.query_one("#waiting", Static)
        line.display = bool(waiting)
        if waiting:
            first = " ".join(waiting[0].split())[:60]
            line.update(f"» {len(waiting)} waiting: {first}")

    def watch_store(self) -> None:
        """Called once a second: say that a reply cannot be saved, and when it is."""
        before, self._problem = self._problem, self.talk.unsaved()
        if self._problem == before:
            return
        if self._problem:
            words = f"The reply cannot be saved now: {self._problem}"
            self.banner.tell(words, "It stays here, and is saved once that is settled: make room.", problem=True)
        else:
            self.banner.tell("The reply is saved now.")

    def close(self) -> None:
        """Save what is on the way; called before the app ends."""
        self.keep_draft(self.composer.value)
        self.talk.close()
