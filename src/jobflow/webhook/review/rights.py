"""Rights that a request needs besides those that the API server itself checks."""

from typing import NamedTuple, Protocol

from jobflow.api.resources import Resource
from jobflow.webhook.review.envelope import UserInfo


class Right(NamedTuple):
    """A right in a namespace."""

    verb: str
    resource: Resource
    namespace: str
    name: str = ""
    """The object; "" for all."""
    need: str = ""
    """Why the request needs it, as the end of a sentence: `, and JobFlow …`."""

    def __str__(self) -> str:
        """Return `create jobs.batch.volcano.sh in namespace "team"`."""
        name = f' "{self.name}"' if self.name else ""
        return f'{self.verb} {self.resource.qualified}{name} in namespace "{self.namespace}"'


class Rights(Protocol):
    """Checks of the user of a request (`webhook.access_rights`)."""

    async def lacking(self, user: UserInfo, right: Right) -> str:
        """Return why the user lacks a right, or "". Raises NotReady."""

    async def is_controller(self, user: UserInfo) -> bool:
        """Return whether the user is JobFlow's controller. Raises NotReady."""


class Unchecked:
    """`Rights` of a webhook that checks no users."""

    async def lacking(self, user: UserInfo, right: Right) -> str:
        return ""

    async def is_controller(self, user: UserInfo) -> bool:
        return True


UNCHECKED = Unchecked()
