"""Work in parts on Ray: a running cluster, or one inside this machine. Imported where it is asked for."""

from countermax._ray._connection import connect as connect
from countermax._ray._parts import WORKER as WORKER
from countermax._ray._parts import in_parts as in_parts
from countermax._ray._parts import merged_in_parts as merged_in_parts
from countermax._ray._parts import one_thread as one_thread
from countermax._ray._parts import put_once as put_once
from countermax._ray._prepared import in_prepared_parts as in_prepared_parts
