"""The authority: signs the logins of integrations at NATS. Requests on the bus alone reach it."""
