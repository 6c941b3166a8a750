"""Arrays in, figures out: one style for every picture, and no computation."""

from countermax.plotting._answers import draw_answers as draw_answers
from countermax.plotting._bars import draw_losses as draw_losses
from countermax.plotting._bars import draw_variances as draw_variances
from countermax.plotting._couplings import draw_couplings as draw_couplings
from countermax.plotting._curves import draw_curves as draw_curves
from countermax.plotting._estimates import draw_estimates as draw_estimates
from countermax.plotting._experiments import draw_distances as draw_distances
from countermax.plotting._experiments import draw_gallery as draw_gallery
from countermax.plotting._experiments import draw_noise_scales as draw_noise_scales
from countermax.plotting._flows import draw_flows as draw_flows
from countermax.plotting._panels import draw_panels as draw_panels
from countermax.plotting._style import checked_format as checked_format
from countermax.plotting._style import colours as colours
from countermax.plotting._style import house_style as house_style
from countermax.plotting._style import picture as picture
from countermax.plotting._trajectory import draw_trajectory as draw_trajectory
from countermax.plotting._verdicts import draw_verdicts as draw_verdicts
