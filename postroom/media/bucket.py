"""An S3 bucket as a shelf; conditional puts make two writers of the same key safe."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from postroom.errors import Unavailable, classify

_GONE = frozenset({"NoSuchKey", "404", "NotFound"})
_CONFLICT_TRIES = 4


class BucketShelf:
    """The media bucket of a site, through a boto3 client that was made elsewhere."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self.s3 = s3
        self.bucket = bucket

    def get(self, key: str) -> bytes | None:
        try:
            body: bytes = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read()
        except ClientError as error:
            if _code(error) in _GONE:
                return None
            raise classify(error) from error
        except Exception as error:
            raise classify(error) from error
        return body

    def has(self, key: str) -> bool:
        try:
            self.s3.head_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if _code(error) in _GONE:
                return False
            raise classify(error) from error
        except Exception as error:
            raise classify(error) from error
        return True

    def put(self, key: str, data: bytes, content_type: str) -> None:
        try:
            self.s3.put_object(Bucket=self.bucket, Key=key, Body=data, ContentType=content_type)
        except Exception as error:
            raise classify(error) from error

    def put_new(self, key: str, data: bytes, content_type: str) -> bool:
        """True when it was written, False when it was there already."""
        for _ in range(_CONFLICT_TRIES):
            try:
                self.s3.put_object(Bucket=self.bucket, Key=key, Body=data, ContentType=content_type, IfNoneMatch="*")
                return True
            except ClientError as error:
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
                if status == 412:
                    return False
                if status != 409:  # 409: another writer is at it right now; ask again
                    raise classify(error) from error
            except Exception as error:
                raise classify(error) from error
        raise Unavailable(f"{key} is being written by others all the time")

    def url(self, key: str, *, seconds: int) -> str:
        """A presigned link, made on demand and never stored."""
        link: str = self.s3.generate_presigned_url(
            "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=seconds
        )
        return link


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
