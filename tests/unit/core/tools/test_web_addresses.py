from __future__ import annotations

import pytest

from vibe.core.tools.builtins.web_fetch import parse_url, refusal
from vibe.core.tools.errors import ToolError


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("https://Example.COM", "https://example.com/"),
        ("http://example.com:8080/a?b=c#d", "http://example.com:8080/a?b=c"),
        ("https://example.com./x", "https://example.com/x"),
        ("https://bücher.example/ü?q=ä", "https://xn--bcher-kva.example/%C3%BC?q=%C3%A4"),
        ("https://93.184.216.34/", "https://93.184.216.34/"),
        ("https://[2606:2800:220:1::1]:444/", "https://[2606:2800:220:1::1]:444/"),
    ],
)
def test_a_url_in_its_usual_form(text: str, canonical: str) -> None:
    assert str(parse_url(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://example.com/",
        "example.com",
        "https://",
        "https:///path",
        "https://user:pass@example.com/",
        "https://example.com@evil.example/",
        "https://example.com\\@evil.example/",
        "https://exa mple.com/",
        "https://example.com/\r\nX-Injected: 1",
        "https://example.com:99999/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://0177.0.0.1/",
        "http://①②⑦.⓪.⓪.①.1/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://printer.local/",
        "http://metadata.google.internal/",
        "http://0xa83f8110/",
        "http://2822734096/",
        "http://168.63.33040/",
        "http://0250.077.0201.020/",
        "http://168.63.129.020/",
        "http://[::1",
        "http://[fe80::1%25eth0]/",
    ],
)
def test_what_is_no_plain_public_url_is_refused(text: str) -> None:
    with pytest.raises(ToolError):
        parse_url(text)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",  # noqa: S104  nothing is bound
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "192.0.0.1",
        "192.168.1.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:c0a8:101::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "not-an-address",
        "168.63.129.16",
        "192.0.0.192",
        "100.100.100.200",
        "fd20:ce::254",
        "169.254.170.23",
        "169.254.42.42",
        "169.254.0.23",
        "fd00:42::42",
        "fd00:a9fe:a9fe::1",
        "::ffff:168.63.129.16",
        "::168.63.129.16",
        "64:ff9b::a83f:8110",
        "64:ff9b::192.0.0.192",
        "64:ff9b:1::a83f:8110",
        "2002:a83f:8110::",
        "2001:4860::5efe:a83f:8110",
        "2001:4860::200:5efe:10.0.0.1",
        "2606:4700::5efe:127.0.0.1",
        "192.0.0.10",
        "192.88.99.1",
        "3fff::1",
    ],
)
def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    assert refusal(address)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1", "64:ff9b::101:101"]
)
def test_public_addresses_are_not(address: str) -> None:
    assert refusal(address) is None


@pytest.mark.parametrize("address", ["168.63.129.16", "::ffff:168.63.129.16"])
def test_the_metadata_of_a_cloud_that_looks_public_is_named(address: str) -> None:
    assert "the secrets of a machine" in str(refusal(address))
