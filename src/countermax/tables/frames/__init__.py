"""Frames of pandas, polars and Arrow behind one small interface."""

from countermax.tables.frames._base import AbstractFrame as AbstractFrame
from countermax.tables.frames._base import Block as Block
from countermax.tables.frames._base import Codes as Codes
from countermax.tables.frames._base import Floats as Floats
from countermax.tables.frames._base import check_new_names as check_new_names
from countermax.tables.frames._libraries import as_frame as as_frame
