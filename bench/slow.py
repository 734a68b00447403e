"""A proxy that makes every request slower: `python -m bench.slow URL SECONDS` prints its port.

It forwards bytes without reading them, so TLS is between the client and the server behind it. Bytes
of a client arrive SECONDS later, in their order; answers and watch events are not held back. More
requests on the same connection do not wait for the first.
"""

import asyncio
import sys
from urllib.parse import urlsplit

from jobflow.runtime.event_loop import run

CHUNK = 2**16


async def delayed(
    source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float
) -> None:
    """Copy bytes until the source ends, each `seconds` after it arrived; then end the target."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def receive() -> None:
        while data := await source.read(CHUNK):
            waiting.put_nowait((loop.time() + seconds, data))
        waiting.put_nowait((loop.time() + seconds, b""))

    receiving = asyncio.create_task(receive())
    while (due := await waiting.get())[1]:
        await asyncio.sleep(due[0] - loop.time())
        target.write(due[1])
        await target.drain()
    await receiving
    target.close()


async def copied(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy bytes until the source ends; then end the target."""
    while data := await source.read(CHUNK):
        target.write(data)
        await target.drain()
    target.close()


async def main(url: str, seconds: float) -> None:
    """Forward until the process is terminated."""
    address = urlsplit(url)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(address.hostname, address.port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(delayed(reader, to_server, seconds))
                both.create_task(copied(from_server, writer))
        except* ConnectionError:
            pass  # a side has reset the connection; the client makes another
        finally:
            writer.close()
            to_server.close()

    server = await asyncio.start_server(forward, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    run(main(sys.argv[1], float(sys.argv[2])))
