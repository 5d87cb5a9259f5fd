"""Near is not the same: the guards read an asked and a stored text and object where their answers could differ."""

from cache.guards.reading import Reading, read
from cache.guards.verdict import Objection, first_objection, objections

__all__ = ["Objection", "Reading", "first_objection", "objections", "read"]
