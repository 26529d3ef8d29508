"""Wire models, subjects and topology that all Clusterra services share, and the demand and the price of a job."""
