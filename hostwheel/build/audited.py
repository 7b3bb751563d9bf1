"""The audit of a finished wheel, before anything of it reaches `out`.

With every engine, and outside: cibuildwheel's own audit-command would come before the symbol maps
that ISA001 asks, and in an environment that it makes from the network.
"""

from collections.abc import Iterator, Sequence

from hostwheel.audit.audit import audit
from hostwheel.audit.result import Finding
from hostwheel.audit.target import of_plan
from hostwheel.build.product import Product
from hostwheel.errors import Refused
from hostwheel.plan.plan import Plan

SHOWN = 9  # findings that are named; there may be one for each function


def check_audit(plan: Plan, product: Product) -> None:
    """Raise Refused with what `hostwheel audit --plan` refuses in the wheel."""
    report = audit(product.wheel, of_plan(plan), hosts=(), symbols=product.symbols)
    refused = [finding for finding in report.findings if finding.standing == "refused"]
    if refused:
        found = "\n  ".join(lines(refused))
        raise Refused(f"the audit refuses {product.wheel.name}:\n  {found}")


def lines(refused: Sequence[Finding]) -> Iterator[str]:
    for each in refused[:SHOWN]:
        where = f"{each.file}: " if each.file else ""
        yield f"{each.check} {where}{each.message}; {each.remedy}"
    if len(refused) > SHOWN:
        yield f"and {len(refused) - SHOWN} more"
