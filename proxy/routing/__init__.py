"""Who should answer: `identity` (whose turn is it), `keys` (is that a session at all), `workers` (who is there),
`homes` (who answered before), `router` (the choice, with its reason). Pure."""
