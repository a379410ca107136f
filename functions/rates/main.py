"""Create, change, show and delete rates; take permits, wait for them. See `signalbox/rates/`."""

from signalbox.rates.http import routes

rates = routes.entry_point()
