"""All sites that Prefect knows."""

from __future__ import annotations

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound

from blocks.site import Site

_PAGE = 200


async def all_sites() -> list[Site]:
    """Every Site block, by project; none before the first is saved or `postroom deploy` has run."""
    found: list[Site] = []
    kind = Site.get_block_type_slug()
    async with get_client() as client:
        try:
            await client.read_block_type_by_slug(kind)
        except ObjectNotFound:
            return []
        while True:
            page = await client.read_block_documents_by_type(kind, offset=len(found), limit=_PAGE)
            found += [Site.model_validate(document.data) for document in page]
            if len(page) < _PAGE:
                return sorted(found, key=lambda site: site.project)
