"""What can be done to a chat and its messages: to the selected one, or else the last it makes sense for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from textual import work
from textual.actions import SkipAction
from textual.events import Key, Paste

from localchat.chat.conversation import Role
from localchat.chat.events import Failed
from localchat.tui.desk import Desk
from localchat.tui.proof import Proof
from localchat.tui.screens.store_view import StoreView
from localchat.tui.talk import Talk
from localchat.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from localchat.chat.store import Node
    from localchat.tui.widgets.turn import Turn


class MessageActions(StoreView):
    """The chat screen's actions on messages."""

    desk: Desk
    talk: Talk
    transcript: Transcript
    _code = 0

    def load_into_composer(self, node: Node) -> None:
        """Begin to change a message."""
        raise NotImplementedError

    async def show_branch(self) -> None:
        """Show the branch that the chat is at."""
        raise NotImplementedError

    def _chosen(self, role: Role | None = None) -> Turn | None:
        turn = self.transcript.selected
        if turn is not None and role in (None, turn.node.role):
            return turn
        return self.transcript.last(role) if role else next(reversed(self.transcript.turns), None)

    def _idle(self) -> bool:
        if self.writing:
            self.notify("A reply is being written; escape stops it.")
            return False
        return True

    def action_regenerate(self) -> None:
        """Write another reply to the same message."""
        turn = self._chosen()
        if turn is None or not self._idle():
            return
        node = turn.node
        if node.role is Role.ASSISTANT and node.parent is not None:
            node = self.talk.parent(node)
        self.talk.answer(node)

    def action_edit(self) -> None:
        """Change a message."""
        turn = self.transcript.selected or self.transcript.last(Role.USER)
        if turn is not None and self._idle():
            self.load_into_composer(turn.node)

    def action_continue_reply(self) -> None:
        """Go on with a reply."""
        turn = self._chosen(Role.ASSISTANT)
        if turn is not None and turn.text and self._idle():
            self.talk.go_on(turn.node)

    def action_previous_branch(self) -> None:
        """The version before."""
        self.run_worker(self._switch(-1), exclusive=True, group="branch")

    def action_next_branch(self) -> None:
        """The version after."""
        self.run_worker(self._switch(1), exclusive=True, group="branch")

    async def _switch(self, step: int) -> None:
        if not self._idle():
            return
        turn = self.transcript.selected or self._latest_fork()
        with self.telling():
            if turn is None or not self.talk.show_version(turn.node, step):
                self.notify("There is no other version that way.")
                return
            await self.show_branch()

    def _latest_fork(self) -> Turn | None:
        turns = self.transcript.turns
        return next((turn for turn in reversed(turns) if turn.versions > 1), turns[-1] if turns else None)

    async def action_previous_message(self) -> None:
        """Select the message above."""
        self._code = 0
        await self.transcript.select(-1)

    async def action_next_message(self) -> None:
        """Select the message below."""
        self._code = 0
        await self.transcript.select(1)

    def action_thinking(self) -> None:
        """Unfold or fold a thought."""
        turn = self.transcript.selected
        if turn is None or not turn.has_thought:
            turn = next((turn for turn in reversed(self.transcript.turns) if turn.has_thought), None)
        if turn is None:
            self.notify("No reply here begins with a thought.")
        else:
            turn.toggle_thought()

    def action_copy_message(self) -> None:
        """Copy what is selected with the mouse, or else the message."""
        from localchat.tui import clipboard

        marked = self.get_selected_text()
        turn = self._chosen(None if self.transcript.selected else Role.ASSISTANT) or self._chosen()
        text = marked or (turn.text if turn else "")
        if text:
            self.notify(clipboard.copy(self.app, text), markup=False)

    def action_copy_text(self) -> None:
        """Ctrl+c: what is selected with the mouse; without a selection the key means something else."""
        if not self.get_selected_text():
            raise SkipAction
        self.action_copy_message()

    def on_key(self, event: Key) -> None:
        """What is typed after a click on the conversation is meant for the composer."""
        if self.focused is self.transcript and event.is_printable and event.character:
            self.composer.focus()
            self.composer.box.insert(event.character)

    def on_paste(self, event: Paste) -> None:
        """What is pasted then is too."""
        if self.focused is self.transcript:
            self.composer.focus()
            self.composer.box.paste(event.text)

    def action_copy_code(self) -> None:
        """Copy a code block; again for the next."""
        from localchat.tui import clipboard

        turn = self._chosen(Role.ASSISTANT)
        blocks = code_blocks(turn.text) if turn else []
        if not blocks:
            self.notify("There is no code block in that message.")
            return
        place = self._code % len(blocks)
        self._code += 1
        said = clipboard.copy(self.app, blocks[place])
        self.notify(f"Code block {place + 1} of {len(blocks)}: {said}", markup=False)

    def action_open_tokens(self) -> None:
        """Open a reply as tokens."""
        from localchat.tui.screens.tokens import TokensScreen

        turn = self._chosen(Role.ASSISTANT)
        written = self.talk.written(turn.node) if turn else None
        if written is None:
            self.notify("No tokens were kept for that message.")
        else:
            self.app.push_screen(TokensScreen(written))

    def action_verify(self) -> None:
        """Write a reply again the other way and compare."""
        turn = self._chosen(Role.ASSISTANT)
        if turn is None or not self._idle():
            return
        turn.note("verifying: writing it again the other way … · escape stops")
        node = turn.node.id
        if not self.talk.verify(turn.node, lambda result: self._verified(node, result)):
            turn.note("No tokens were kept for this message, so it cannot be verified.")

    def _verified(self, node: int, result: Proof | Failed | None) -> None:
        line = verdict(result)
        if turn := self.transcript.turn(node):
            turn.note(line)
        else:  # another chat or another branch is shown by now
            self.notify(f"The reply you had verified: {line}", timeout=10, markup=False)

    @work
    async def action_chat_options(self) -> None:
        """System message and sampling of this chat."""
        from localchat.tui.screens.chat_options import ChatOptionsScreen, presets

        with self.telling():
            chat = self.talk.chat or self.desk.store.create(self.desk.system, None, self.desk.accelerate)
            changed = await self.app.push_screen_wait(ChatOptionsScreen(chat, presets(self.desk.resolved)))
            if changed is not None:
                now = self.desk.store.chat(chat.id)  # it may have gone on meanwhile
                self.talk.chat = self.desk.store.save(
                    replace(
                        now,
                        system=changed.system,
                        sampling=changed.sampling,
                        preset=changed.preset,
                        seed=changed.seed,
                    )
                )

    @work
    async def action_export(self) -> None:
        """Write the chat to a file."""
        from localchat.tui.export import export

        if self.talk.chat is None:
            self.notify("There is nothing to export yet.")
            return
        with self.telling():
            self.notify(await export(self, self.desk.store, self.talk.chat), markup=False)


def verdict(result: Proof | Failed | None) -> str:
    """What a verification found, in one line."""
    if not isinstance(result, Proof):
        return f"not verified: {result.title}" if result else "not verified: it was stopped"
    way = "with drafts" if result.accelerated else "without drafts"
    if result.position is None:
        return f"✓ identical: written again {way}, all {result.tokens} tokens are the same"
    reason = ": a tie within rounding, which exact mode rules out" if result.tie else ""
    return f"≠ written again {way}, token {result.position + 1} of {result.tokens} is another{reason}"


def code_blocks(text: str) -> list[str]:
    """The contents of a Markdown text's code blocks."""
    from markdown_it import MarkdownIt

    return [token.content for token in MarkdownIt().parse(text) if token.type in ("fence", "code_block")]
