"""Lines of streamed answers."""

import tracemalloc
from collections.abc import AsyncIterator

import pytest

from jobflow.kube.answers import line_batches


async def chunks_of(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([], []),
        ([b"a\n\nb\n"], [b"a", b"", b"b"]),
        ([b"a", b"b\nc", b"\n"], [b"ab", b"c"]),
        ([b"a\nb"], [b"a", b"b"]),
        ([b"12345678\n"], [b"12345678"]),
        ([b"123456789\n"], [b"12345678", b"9"]),
        ([b"1234", b"56789", b"0\n"], [b"12345678", b"90"]),
        (["123456ößä\n".encode()], ["123456ö".encode(), "ßä".encode()]),
        (["1234567ößä\n".encode()], [b"1234567", "ößä".encode()]),
        ([b"\xbf" * 20], [b"\xbf" * 5, b"\xbf" * 5, b"\xbf" * 5, b"\xbf" * 5]),
    ],
)
async def test_lines_are_split_and_long_ones_cut(chunks: list[bytes], lines: list[bytes]) -> None:
    batches = line_batches(chunks_of(*chunks), longest=8)
    assert [line async for batch in batches for line in batch] == lines


async def test_a_line_without_end_needs_bounded_memory() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(2000):
            yield bytes(64 * 1024)

    tracemalloc.start()
    try:
        total = 0
        async for batch in line_batches(endless(), longest=256 * 1024):
            total += sum(map(len, batch))
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()
    assert total == 2000 * 64 * 1024
