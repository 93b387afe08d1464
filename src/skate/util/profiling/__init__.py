"""Profiles of the workers and drivers of a session: where they spend CPU time, and which lines hold memory."""

from skate.client.profiler.reporter import CPU as CPU
from skate.client.profiler.reporter import MEMORY as MEMORY
from skate.client.profiler.reporter import WALL as WALL
from skate.util.profiling.requests import Answers as Answers
from skate.util.profiling.requests import Profile as Profile
from skate.util.profiling.requests import take as take
from skate.util.profiling.requests import traceback_of as traceback_of
