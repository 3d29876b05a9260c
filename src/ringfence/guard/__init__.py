"""The judge of tool calls: what a call would touch, and whether it may. Pure: eyes and rules are handed in."""

from .bounds import Bounds as Bounds
from .judge import Judgement as Judgement
from .judge import ToolCall as ToolCall
from .judge import judge as judge
