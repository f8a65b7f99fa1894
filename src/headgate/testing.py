"""For the tests of programs that use Headgate: a clock that moves only when told to.

Give it to a limiter and time stands still:

    clock = FakeClock()
    limiter = Limiter(rules="rules.yaml", clock=clock)
    ...
    clock.advance(60)
"""

from headgate._core import FakeClock

__all__ = ["FakeClock"]
