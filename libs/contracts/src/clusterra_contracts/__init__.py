"""Wire models, subjects and topology that all Clusterra services share."""
