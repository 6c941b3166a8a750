"""What every answer about episodes leaves out."""

MODEL_GIVEN = "Takes the model as given: how well it was estimated is left out."
