"""The world's continents, countries and cities as resources that refer to each other.

GET {base}atlas/cities?country.continent.name=Europe&_sort=-population&_end=10
"""

from typing import Annotated

from signalbox import Function, RefersTo, add_resource

app = Function("atlas")


class Continent:
    name: str
    population: int = 0


class Country:
    name: str
    capital: str = ""
    population: int = 0
    area_km2: float = 0
    languages: list[str]
    continent: Annotated[str, RefersTo("continents", on_delete="cascade")]


class City:
    name: str
    population: int = 0
    time_zone: str = ""
    latitude: float
    longitude: float
    country: Annotated[str, RefersTo("countries", on_delete="cascade")]


add_resource(app, Continent, at="/continents", ids_from_clients=True)
add_resource(app, Country, at="/countries", ids_from_clients=True)
add_resource(app, City, at="/cities", ids_from_clients=True)
atlas = app.entry_point()
