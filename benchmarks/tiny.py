"""The flow that workers are measured with: it does nothing but say when its body began."""

import time
from pathlib import Path

from prefect import flow


@flow
async def tiny(book: str, name: str) -> str:
    began = time.time()
    with Path(book).open("a") as file:
        file.write(f"{name} {began}\n")
    return name
