"""Identifiers are recognised by the names of columns, in four languages."""

from __future__ import annotations

import pytest

from skfairdp.records.identifier_names import looks_like_an_identifier, may_name_persons

ENGLISH = [
    "Passport No",
    "client_no",
    "policyNumber",
    "customer_id",
    "PatientNumber",
    "ssn",
    "email",
    *("pidnum", "caseid", "hhid", "idno", "PERSONID"),
]
GERMAN = [
    *("Kundennummer", "Kunden-Nr.", "KundenNr", "kundenid", "Versichertennummer", "Steuer-ID"),
    *("Steuernummer", "Patienten-Nr", "Matrikelnummer", "Aktenzeichen", "Mitgliedsnr", "Konto_Nr"),
    *("Krankenversichertennummer", "SCHÜLERNUMMER", "Vertragsnummer", "Personalausweisnummer"),
]
FRENCH = [
    *("numéro_client", "N° client", "Numéro de sécurité sociale", "matricule", "identifiant"),
    *("num_dossier", "numéro d'assuré", "courriel", "NIR"),
]
SPANISH = ["número de cliente", "nro_paciente", "DNI", "NIF", "numero_de_historia_clinica", "CURP"]


@pytest.mark.parametrize("name", [*ENGLISH, *GERMAN, *FRENCH, *SPANISH])
def test_numbers_of_people_are_identifiers_that_may_name_persons(name: str) -> None:
    assert looks_like_an_identifier(name)
    assert may_name_persons(name)


@pytest.mark.parametrize(
    "name",
    ["covid", "valid", "android", "PID", "idle", "solids", "body_mass_index",
     "number_of_clients", "idle_hours", "paid", "Anzahl Kunden", "Nummer",
     "Hausnummer", "Kundenart", "Fallzahl", "Kontostand", "Steuerklasse", "Alter", "Nationalität",
     "nombre de clients", "type de contrat", "âge", "número de clientes", "tipo de contrato",
     "ingresos", "Personalkosten", "Einkommen"],
)  # fmt: skip
def test_other_facts_are_none(name: str) -> None:
    assert not looks_like_an_identifier(name)


@pytest.mark.parametrize("name", ["hat_Telefon", "ist_Mitglieds_ID", "tiene telefono"])
def test_flags_in_other_languages_are_no_identifiers(name: str) -> None:
    assert not looks_like_an_identifier(name)


def test_names_and_phones_in_other_languages_do_not_say_whose_row_it_is() -> None:
    names = ("Vorname", "Nachname", "Telefonnummer", "prénom", "nom de famille", "apellidos")
    assert all(map(looks_like_an_identifier, names))
    assert not any(map(may_name_persons, names))


@pytest.mark.parametrize("name", ["patient", "Customer", "client", "Kunde", "paciente"])
def test_a_column_that_is_called_as_a_person_may_name_persons(name: str) -> None:
    assert may_name_persons(name)
    assert looks_like_an_identifier("name")
    assert not may_name_persons("name")  # two people may have one
    for other in (f"{name} type", "car name", "student", "number of patients"):
        assert not looks_like_an_identifier(other)


@pytest.mark.parametrize("name", ["has_phone", "IsMember_ID", "PctHousNoPhone", "number of phones"])
def test_flags_shares_and_numbers_are_no_identifiers(name: str) -> None:
    assert not looks_like_an_identifier(name)
    assert not may_name_persons(name)


def test_phones_and_row_numbers_do_not_say_whose_row_it_is() -> None:
    names = ("phone", "last_name", "Unnamed: 0", "index")
    assert all(map(looks_like_an_identifier, names))
    assert not any(map(may_name_persons, names))
    assert all(map(may_name_persons, ("customer_id", "PatientNumber", "ssn", "email")))
