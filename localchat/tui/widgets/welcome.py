"""What an empty chat shows instead of nothing."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from localchat.chat.events import Loaded
from localchat.models.plan import STARTER
from localchat.sanitize import clean
from localchat.tui.keymap import worded

_GUIDE = (
    "What is speculative decoding?",
    "Why is the text the same with drafts?",
    "How do I use my own model?",
)


class Welcome(Static):
    """A few lines that say what is here and how to begin."""

    def __init__(self) -> None:
        super().__init__("", markup=False)

    def on_mount(self) -> None:
        """Nothing is loaded yet."""
        self.told(None)

    def told(self, loaded: Loaded | None) -> None:
        """Fit the words to what is loaded."""
        rows: list[tuple[str, str]] = [("localchat", "bold $primary"), ("", "")]
        if loaded is None:
            rows += [("Write something below; the reply begins when the model is ready.", "")]
        elif loaded.plan.model == STARTER:
            rows += [
                ("You talk to the built-in guide: two small models that know localchat and", ""),
                ("speculative decoding, and little else. Ask it", ""),
                *((f"   › {question}", "$accent") for question in _GUIDE),
                (worded(self.app, "{settings} chooses a model of your own."), ""),
            ]
        else:
            pace = f"{loaded.plain_tokens_per_second:.0f} tok/s without drafts"
            rows += [(f"{clean(loaded.model_name)} is ready: {pace}.", "")]
        rows += [(clean(note), "$text-muted") for note in (loaded.notes if loaded else ())]
        keys = "{accelerate} switches drafting · {tokens} shows the tokens · {help} helps · {commands} finds the rest"
        rows += [("", ""), (worded(self.app, keys), "$text-muted")]
        self.update(Content("\n").join(Content.styled(text, style) for text, style in rows))
