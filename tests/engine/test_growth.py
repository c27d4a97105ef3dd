"""Drafts that grow level by level: shapes, rows and the governor's say."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from localchat.engine.drafters import Parts, growth
from localchat.engine.governor import Governor, Timings
from localchat.engine.sampling import Picker
from localchat.engine.sizes import WIDTHS
from localchat.engine.sureness import SURE
from localchat.engine.target import Target
from localchat.engine.tree import ancestors, depths
from localchat.engine.types import ROOT, Draft, Sampling
from tests.engine.matrix import SETTINGS, compare, prompts
from tests.support.tiny import generous, tiny
from tests.support.tiny_heads import whimsical

TEXT = [1, 2, 3]


class Fake:
    """A network whose likeliest token after token t is t + 1, then t + 2, then t + 3, as likely as it is told."""

    head_ids: Tensor | None = None

    def __init__(self, chances: Sequence[float], ends: Sequence[int] = ()) -> None:
        self.chances, self.ends = chances, frozenset(ends)
        self.rows: list[list[int]] = []
        """Tokens of each row's path."""

    def _after(self, tokens: Sequence[int]) -> Tensor:
        logits = torch.full((len(tokens), 100), -30.0)
        for row, token in enumerate(tokens):
            for rank, chance in enumerate(self.chances, start=1):
                logits[row, token + rank] = torch.tensor(chance).log()
        return logits

    def root(self, tokens: Sequence[int]) -> Tensor:
        self.rows = []
        return self._after(tokens[-1:])

    def level(self, ids: Tensor, above: Sequence[int]) -> Tensor:
        before = [[] if row == ROOT else self.rows[row] for row in above]
        self.rows += [[*path, token] for path, token in zip(before, ids.tolist(), strict=True)]
        return self._after(ids.tolist())


def grown(network: Fake, governor: Governor, most: int = 9) -> growth.Grown:
    """What grows from it at temperature 0."""
    governor.open(60)
    picker = Picker(Sampling(temperature=0.0), TEXT, 100, torch.device("cpu"))
    return growth.grow("model", network, TEXT, picker, governor, most)


def priced(row: float, step: float) -> Governor:
    """A governor to which a row and a step of the drafting network cost that much of a plain forward."""
    return Governor(Timings(tuple((w, 1.0 + row * (w - 1)) for w in WIDTHS), (("model", step),)), 32)


def words(draft: Draft) -> list[list[int]]:
    """Tokens of the path to each node."""
    assert draft.ids is not None
    ids = draft.ids.tolist()
    return [[ids[at] for at in ancestors(draft.parents, node)] for node in range(len(draft))]


def test_every_node_follows_what_it_was_drafted_after() -> None:
    """Guards the bookkeeping of trees: a node's path is the path its network row had, the likeliest path comes first,
    and an accepted path is kept by the rows that hold it."""
    network = Fake((0.4, 0.35, 0.25))
    found = grown(network, generous(40), 3)
    paths = words(found.draft)
    assert len({tuple(path) for path in paths}) == len(paths) == len(found.draft) == 3 + 9 + 12
    assert paths[:3] == [[4], [4, 5], [4, 5, 6]]
    for node, row in enumerate(found.rows):
        if row >= 0:
            assert network.rows[row] == paths[node]
    assert found.kept([0, 1, 2]) == [network.rows.index([4]), network.rows.index([4, 5])]
    assert found.draft.steps == max(depths(found.draft.parents)) == 3


def test_a_certain_network_makes_a_chain_and_a_doubtful_one_a_tree() -> None:
    """Guards the shape: it follows what the network is sure of, and what rows and steps cost."""
    certain = grown(Fake((0.99, 0.005, 0.005)), priced(0.02, 0.05)).draft
    assert certain.is_chain
    assert len(certain) >= 6
    doubtful = grown(Fake((0.4, 0.35, 0.25)), priced(0.005, 0.1)).draft
    assert not doubtful.is_chain
    assert len(doubtful) > max(depths(doubtful.parents))
    assert not grown(Fake((0.6, 0.3, 0.1)), priced(0.005, 0.1)).draft.is_chain
    assert grown(Fake((0.6, 0.3, 0.1)), priced(0.4, 0.01)).draft.is_chain, "rows are dear here"


def test_an_unlikely_path_is_not_gone_on_from() -> None:
    """Guards the price of a level: rows that hardly ever come true are not computed, though they may be verified."""
    network = Fake((0.9, 0.06, 0.04))
    assert len(grown(network, generous(40), 3).draft) == 9
    assert len(network.rows) == 2


def test_nothing_is_drafted_after_an_end() -> None:
    """Guards wasted rows: what ends a reply has no children."""
    draft = grown(Fake((0.6, 0.3, 0.1), ends=(4, 6)), generous(60), 4).draft
    assert not any({4, 6} & set(path[:-1]) for path in words(draft))
    assert any(path[-1] == 6 for path in words(draft))


def test_exact_mode_grows_a_chain() -> None:
    """Guards exact mode: one child a node, as deep as there is room."""
    draft = grown(Fake((0.4, 0.35, 0.25)), generous(fixed_width=6)).draft
    assert draft.is_chain
    assert len(draft) == 5


def test_no_numbers_no_draft_and_the_source_is_parked() -> None:
    """Guards replies against a damaged network: it costs a step now and then, never more, and is not tried for ever."""
    governor, network = priced(0.01, 0.1), Fake((float("nan"),) * 3)
    tried = 0
    for _ in range(60):
        draft = grown(network, governor).draft
        governor.decide(draft)
        tried += bool(draft)
    assert tried <= 4
    assert governor.decide(draft).parked


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_trees_of_a_draft_model_change_no_text(kind: str) -> None:
    """Guards losslessness over trees of every shape: what is kept, pruned and grown on is thrown by dice."""
    target = Target(tiny(kind), 256)
    parts = Parts(target, Target(tiny(kind, seed=1), 256))
    found = compare(target, parts, prompts(2), range(1), 24, SETTINGS[::3], whimsical)
    assert found.differences == ()
    assert found.accepted


def test_where_chances_cannot_be_read_a_chain_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards the GPU's way, on the CPU: classes are depths, no value is looked at, the text is the same."""
    monkeypatch.setattr(growth, "readable", lambda _: False)
    draft = grown(Fake((0.4, 0.35, 0.25)), generous(6)).draft
    assert draft.is_chain
    assert draft.classes == (0, 1, 2, 3, 4)
    target = Target(tiny("llama"), 256)
    found = compare(target, Parts(target, Target(tiny("llama", seed=1), 256)), prompts(2), range(1), 24, SETTINGS[::3])
    assert found.differences == ()


def test_classes_say_how_sure_the_network_was() -> None:
    """Guards what is learnt: siblings of unlike chances are not of one class."""
    draft = grown(Fake((0.7, 0.2, 0.1)), generous(4), 1).draft
    assert len(set(draft.classes)) == 3
    assert min(draft.classes) >= SURE
