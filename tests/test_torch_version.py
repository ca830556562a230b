"""Versions are ordered by PEP 440, and `packaging` is the reference."""

from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from ember.torch_version import TorchVersion
from ember.version import __version__

versions = st.builds(
    "".join,
    st.tuples(
        st.lists(st.sampled_from(["0", "1", "2", "10"]), min_size=1, max_size=4).map(".".join),
        st.sampled_from(["", "", "a", "b1", "rc12", ".a0", "-beta2", "alpha", "c3"]),
        st.sampled_from(["", "", ".post0", "-1", "post2", ".rev1"]),
        st.sampled_from(["", "", ".dev", "dev1", "-dev20240101"]),
        st.sampled_from(["", "", "+cpu", "+cu118", "+1", "+abc.1", "+abc.2", "+10"]),
    ),
)


@given(versions, versions)
def test_order_is_that_of_packaging(one, other):
    mine, reference = TorchVersion(one), (Version(one), Version(other))
    assert (mine < other) == (reference[0] < reference[1])
    assert (mine <= other) == (reference[0] <= reference[1])
    assert (mine == other) == (reference[0] == reference[1])
    assert (mine > other) == (reference[0] > reference[1])
    assert (mine >= other) == (reference[0] >= reference[1])
    assert (mine != other) == (reference[0] != reference[1])


def test_tuples_and_plain_texts():
    version = TorchVersion("2.13.0+cpu")
    assert version >= (2, 13) and version < [3, 0] and version == (2, 13, "0+cpu")
    assert version > "2.13.0" and "2.9" < version
    assert TorchVersion("nightly") == "nightly" and TorchVersion("nightly") != "2.0"
    assert hash(version) == hash("2.13.0+cpu") and isinstance(version, str)


def test_libraries_can_read_the_version():
    assert Version(__version__).release >= (2, 13)
    assert [int(part) for part in __version__.split(".")[:2]] == [2, 13]
