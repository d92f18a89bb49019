"""The book: the only code that decides "may I start, am I still the owner, is it done"."""

from postroom.ledger.book import Book as Book
from postroom.ledger.events import Event as Event
from postroom.ledger.holding import Holding as Holding
from postroom.ledger.holding import hold as hold
from postroom.ledger.leases import Busy as Busy
from postroom.ledger.leases import Ended as Ended
from postroom.ledger.leases import Exhausted as Exhausted
from postroom.ledger.leases import Granted as Granted
from postroom.ledger.leases import Lease as Lease
from postroom.ledger.rows import Row as Row
from postroom.ledger.rows import State as State
from postroom.ledger.rows import Work as Work
