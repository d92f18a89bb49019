"""Settings that do not fit together are refused at start, by name."""

import pytest

from postroom.errors import Misconfigured
from postroom.settings import load


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"visibility_seconds": 60, "extend_seconds": 30}, "POSTROOM_EXTEND_SECONDS is 30: .* which is 60"),
        ({"visibility_seconds": 7200}, "POSTROOM_HOLD_SECONDS is 39600: .* which is 7200"),
        ({"health_warning_minutes": 11}, "POSTROOM_HEALTH_WARNING_MINUTES is 11: .* which is 10"),
    ],
)
def test_settings_that_do_not_fit_together_are_named(wrong: dict[str, float], named: str) -> None:
    with pytest.raises(Misconfigured, match=named):
        load(**wrong)


def test_no_secret_is_shown_with_them() -> None:
    with pytest.raises(Misconfigured) as caught:
        load(extend_seconds=60, agent_token="hush, this is one")
    assert "hush" not in str(caught.value)


def test_a_quick_post_room_may_be_as_quick_as_it_likes_in_proportion() -> None:
    assert load(visibility_seconds=12, extend_seconds=3, promise_seconds=4).visibility_seconds == 12
