"""What the target says to the held-out texts: asked once, since it never changes its mind."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from localchat.train.teacher import Exam, Teacher


class Exams:
    """The lessons to judge on, kept in memory."""

    def __init__(self, teacher: Teacher) -> None:
        self._teacher = teacher
        self._kept: dict[bytes, Exam] = {}

    def __call__(self, tokens: Tensor) -> Exam:
        """The lesson of a batch of texts int64 [B, T], with the target's choices and one column of its logits."""
        key = tokens.cpu().numpy().tobytes()
        if key not in self._kept:
            exam = self._teacher.exam(tokens)
            # Judging looks at choices alone, and logits are most of a lesson.
            self._kept[key] = replace(exam, logits=exam.logits[..., :1].clone())
        return self._kept[key]
