"""The proxy of `python -m bench cluster --latency` forwards everything, in its order."""

import asyncio

from bench.slow import Client


async def test_bytes_arrive_in_their_order_and_the_end_after_them() -> None:
    sent = [f"{number:04}".encode() for number in range(300)]
    received: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard = b""
        while data := await reader.read(100):
            writer.write(data)
            heard += data
        writer.close()
        received.set_result(heard)

    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        loop = asyncio.get_running_loop()
        async with await loop.create_server(lambda: Client(host, port, 0.001), host, 0) as proxy:
            reader, writer = await asyncio.open_connection(*proxy.sockets[0].getsockname())
            for data in sent:
                writer.write(data)
                await asyncio.sleep(0)
            assert await reader.readexactly(4 * len(sent)) == b"".join(sent)
            writer.close()
            assert await received == b"".join(sent)
