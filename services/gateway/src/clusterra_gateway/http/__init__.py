"""HTTP: routes, requests, responses, problems, and how the API describes itself."""
