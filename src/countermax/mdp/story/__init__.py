"""One episode told."""

from countermax.mdp.story._explain import explain as explain
from countermax.mdp.story._story import Story as Story
