"""`python -m proxy` is `rejoinder`."""

from proxy.cli import main

main()
