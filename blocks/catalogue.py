"""Every block of ours. A new block is one file here and one name in the tuple; `postroom deploy` registers it."""

from __future__ import annotations

from prefect.blocks.core import Block

from blocks.customer import Customer
from blocks.graph import Graph
from blocks.site import Site
from blocks.slack import Slack

BLOCKS: tuple[type[Block], ...] = (Customer, Graph, Site, Slack)
