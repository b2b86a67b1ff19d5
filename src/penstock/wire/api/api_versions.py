"""ApiVersions (key 18): which versions of which APIs the broker accepts; the first request of every connection.

A broker that does not know the version answers with version 0, UNSUPPORTED_VERSION and the list filled in (KIP-511).
The response has header version 0 in every version, so that a client can read it before it knows anything.

Versions:
- 1: throttle time
- 3: flexible; name and version of the client's software, features of the broker as tags (KIP-584)
- 4: a feature's least version may be 0 (KAFKA-17011)
"""

from __future__ import annotations

from penstock.wire.api import Api
from penstock.wire.schema import Struct, array, boolean, int16, int32, int64, message, string, struct


@message("0-4", flexible="3+")
class ApiVersionsRequest(Struct):
    client_software_name: str = string("3+", ignorable=True)
    client_software_version: str = string("3+", ignorable=True)


@struct
class ApiVersion(Struct):
    """One API and the versions of it that are accepted."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey(Struct):
    """A feature and the levels that this broker can run."""

    name: str = string("3+")
    min_version: int = int16("3+")
    max_version: int = int16("3+")


@struct
class FinalizedFeatureKey(Struct):
    """A feature and the levels that the cluster runs at."""

    name: str = string("3+")
    max_version_level: int = int16("3+")
    min_version_level: int = int16("3+")


@message("0-4", flexible="3+")
class ApiVersionsResponse(Struct):
    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0, ignorable=True)
    finalized_features_epoch: int = int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2, ignorable=True)
    zk_migration_ready: bool = boolean("3+", tag=3, ignorable=True)


API = Api(18, ApiVersionsRequest, ApiVersionsResponse)
