"""The log that comes with the package is the one that its process gives."""

from countermax.mdp import policy_value
from countermax.mdp._files import read_log_and_policy
from studies.processes import ward


def test_the_files_of_the_package_are_those_that_the_command_writes():
    for name, text in ward.files().items():
        assert (ward.FOLDER / name).read_text() == text


def test_the_other_policy_is_better_in_truth_and_the_log_has_every_state():
    found = read_log_and_policy(ward.FOLDER / "ward_log.csv", ward.FOLDER / "ward_policy.csv")
    assert len(found.log) == 200
    assert set(found.log.state_names) == set(ward.STATES)
    order = [found.log.state_names.index(state) for state in ward.STATES]
    other = found.policy[order][:, [found.log.action_names.index(action) for action in ward.ACTIONS]]
    assert policy_value(ward.process(), other, horizon=10) > found.log.returns().mean() + 0.2
