"""What an operator may see and do, behind /admin: one table of routes, and those who answer them.

    routes       Route: method, path, role, summary, schemas. The table that everything below is read from
    schema       does a value fit a JSON Schema (the few words of it that our routes use)
    openapi      the table as an OpenAPI 3.1 document
    access       who asks: tokens, API keys of trusted tenants, a browser's session, this machine; and his role
    audit        who changed what, and when
    doors        one request: who → which route → may he → does it fit → done → audited
    answers, workers …           the deeds, each with its part of the table

A new door is one `Route` in the list that a module's `routes()` gives, and that list named in `proxy.app`.
"""

from proxy.admin.access import Access
from proxy.admin.audit import KEPT as MOST_DEEDS
from proxy.admin.audit import Audit
from proxy.admin.doors import Admin
from proxy.admin.routes import Order, Person, Route

PREFIX = "/admin"

__all__ = ["MOST_DEEDS", "PREFIX", "Access", "Admin", "Audit", "Order", "Person", "Route"]
