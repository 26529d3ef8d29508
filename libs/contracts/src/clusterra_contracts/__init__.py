"""Wire models, subjects and topology shared by all Clusterra services."""
