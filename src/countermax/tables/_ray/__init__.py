"""Tables on Ray: Datasets, and folders of Parquet files. Ray is imported where it is asked for."""

from countermax.tables._ray._datasets import counterfactuals_dataset as counterfactuals_dataset
from countermax.tables._ray._files import answer_files as answer_files
from countermax.tables._ray._files import tally_files as tally_files
from countermax.tables._ray._sums import effects_dataset as effects_dataset
from countermax.tables._ray._sums import transitions_dataset as transitions_dataset
