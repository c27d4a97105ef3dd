"""Every key of the screen in one table: what a key is called, does and means. No textual at import time.

Each action has a second way besides a function key, because terminals and editors swallow some; the command palette
reaches all of them without any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a key does."""

    id: str
    """Its name in the config file's [keys] table."""
    where: str
    """The screen or widget that binds it: app, chat, ..."""
    keys: str
    """Comma-separated, in textual's spelling."""
    label: str
    """One or two words for the footer."""
    meaning: str
    """One sentence for help and the command palette."""
    footer: bool = False
    """Shown at the foot of the screen."""
    priority: bool = False
    """Works whatever has the focus."""

    @property
    def name(self) -> str:
        """The method `action_<name>` that it calls."""
        return self.id.rsplit(".", 1)[-1].replace("-", "_")

    def binding(self) -> Binding:
        """As textual has it."""
        from textual.binding import Binding

        return Binding(self.keys, self.name, self.label, show=self.footer, priority=self.priority, id=self.id)


ACTIONS: tuple[Action, ...] = (
    Action("accelerate", "app", "f5,alt+a", "Accel", "Switch drafting on or off, from the next round on.", True, True),
    Action("settings", "app", "f2,alt+s", "Settings", "Choose model, draft, precision and context.", True, True),
    Action("compare", "app", "f3,alt+c", "Compare", "Race plain against accelerated, side by side.", True, True),
    Action("tokens", "app", "f4,alt+t", "Tokens", "Show the tokens as they are drafted and checked.", True, True),
    Action("help", "app", "f1,alt+h", "Help", "Explain what has the focus, and list the keys.", True, True),
    Action("commands", "app", "ctrl+p,alt+p", "Commands", "Find and run any command by its name.", True, True),
    Action("quit", "app", "ctrl+q,alt+q", "Quit", "Leave; everything is saved.", False, True),
    Action("suspend", "app", "ctrl+z", "Suspend", "Go into the background (fg brings it back).", False, True),
    Action("new-chat", "chat", "ctrl+n,alt+n", "New", "Begin a new chat.", True, True),
    Action("chats", "chat", "ctrl+o,alt+o", "Chats", "Show or hide the list of chats.", True, True),
    Action("panel", "chat", "f6,alt+l", "Panel", "Show or hide the live panel.", False, True),
    Action("stop", "chat", "escape", "Stop", "Stop the reply; what is written stays.", False),
    Action("regenerate", "chat", "ctrl+r,alt+r", "Again", "Write another reply to the same message.", False, True),
    Action("edit", "chat", "alt+e", "Edit", "Change a message; the old one stays as a branch.", False, True),
    Action("continue-reply", "chat", "alt+k", "Continue", "Go on writing a reply that was stopped.", False, True),
    Action("verify", "chat", "alt+v", "Verify", "Write the reply the other way, and compare the text.", False, True),
    Action("open-tokens", "chat", "alt+w", "Explain", "Open a reply as tokens, each one explained.", False, True),
    Action("copy-message", "chat", "ctrl+y,alt+y", "Copy", "Copy the message.", False, True),
    Action("copy-code", "chat", "alt+j", "Copy code", "Copy the next code block of the message.", False, True),
    Action("thinking", "chat", "alt+i", "Thinking", "Unfold or fold what the model thought.", False, True),
    Action("previous-message", "chat", "alt+up", "Previous", "Select the message above.", False, True),
    Action("next-message", "chat", "alt+down", "Next", "Select the message below.", False, True),
    Action("previous-branch", "chat", "alt+left", "Branch before", "Show the previous version.", False, True),
    Action("next-branch", "chat", "alt+right", "Branch after", "Show the next version.", False, True),
    Action("chat-options", "chat", "alt+m", "Chat options", "System message and sampling of this chat.", False, True),
    Action("export", "chat", "alt+x", "Export", "Write this chat to a file.", False, True),
    Action("restart", "chat", "f9,alt+z", "Restart", "Start the engine again.", False, True),
    Action("newline", "composer", "ctrl+j,shift+enter,alt+enter", "New line", "Begin a new line."),
    Action("editor", "composer", "ctrl+g,alt+g", "Editor", "Write in $EDITOR."),
    Action("attach", "composer", "ctrl+t,alt+d", "Attach", "Add a text file to the message."),
    Action("undo", "composer", "ctrl+underscore,alt+u", "Undo", "Take the last change of the message back."),
    Action("redo", "composer", "alt+shift+u", "Redo", "Make the change again."),
    Action("rename-chat", "chat-list", "ctrl+e", "Rename", "Give the chat another name."),
    Action("delete-chat", "chat-list", "delete,ctrl+d", "Delete", "Delete the chat; it can be brought back."),
    Action("restore-chat", "chat-list", "ctrl+u", "Undo", "Bring the chat deleted last back."),
    Action("search-chats", "chat-list", "slash", "Search", "Search in titles and messages."),
    Action("keep-options", "chat-options", "ctrl+s,alt+enter", "Keep", "Keep what is set here.", False, True),
    Action("apply", "settings", "enter", "Apply", "Load what is chosen."),
    Action("save-profile", "settings", "s", "Save as profile", "Keep these choices under a name."),
    Action("leave-settings", "settings", "escape", "Back", "Leave; while something loads: stop that."),
    Action("leave-tokens", "tokens", "escape,q", "Back", "Go back to the chat.", True),
    Action("next-rejected", "tokens", "n", "Next rejected", "Go to the next place where a draft was rejected.", True),
    Action("previous-rejected", "tokens", "p", "Rejected before", "Go to the rejected draft before.", True),
    Action("race-run", "compare", "ctrl+r,alt+r", "Run", "Write it plain and drafted, and compare.", True, True),
    Action("race-replay", "compare", "alt+w,space", "Replay", "Watch the race again.", True),
    Action("race-kinds", "compare", "alt+k", "Kinds", "Compare by your prompt, or by six kinds of work.", False, True),
    Action("race-repeats", "compare", "alt+n", "Repeats", "How often each prompt is asked: 1, 3, 5 or 9.", False, True),
    Action("race-next", "compare", "alt+down", "Next kind", "Show the next kind of work.", False, True),
    Action("race-previous", "compare", "alt+up", "Kind before", "Show the kind of work before.", False, True),
    Action("race-figures", "compare", "alt+b", "Bars", "Figures or bars, where both do not fit.", True, True),
    Action("race-history", "compare", "ctrl+o,alt+o", "History", "Open an earlier comparison.", True, True),
    Action("race-export", "compare", "alt+x", "Export", "Write it to files: JSON, Markdown and SVG.", True, True),
    Action("race-leave", "compare", "escape", "Back", "Stop what runs, or go back to the chat.", True),
    Action("race-forget", "comparisons", "delete,d", "Delete", "Forget this comparison."),
)
"""All of them; a screen or widget takes its own by `bindings`."""


def bindings(where: str) -> list[BindingType]:
    """The bindings of a screen or widget."""
    return [action.binding() for action in ACTIONS if action.where == where]
