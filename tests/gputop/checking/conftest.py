"""All that these tests are answered is compared with what it was."""

from syrupy import snapshot as kept_answers

from tests.support.whole import whole_answers

__all__ = ("kept_answers", "whole_answers")
