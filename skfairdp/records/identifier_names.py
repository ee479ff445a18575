"""Names of columns that identify people, in English, German, French and Spanish.

Names are compared in small letters, without accents, as words with blanks between them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable

# Names, or words within names, that stand for an identifier by themselves.
_ALONE = (
    # English
    *("id", "ids", "uuid", "guid", "ssn", "iban", "passport", "e?mail", "nbr", "mrn"),
    # Written in one word: pidnum, caseid, hhid
    r"(?:h?h|u|pat|person|patient|subj|subject|case|user|cust|customer|client|household|emp|"
    r"employee|member|resp|respondent|student|record|row|unique)?id(?:s|no|num|nr)?",
    "pid(?:no|num|nr)",
    # German; compounds such as Kundennummer are below
    *("steuerid", "idnr", "idnummer", "kundenid", "patientenid", "personenkennzeichen"),
    *("aktenzeichen", "svnr", "steuernr", "kontonr"),
    # French
    *("identifiant", "matricule", "nir", "courriel", "code client"),
    # Spanish
    *("identificador", "dni", "nif", "curp", "cedula", "correo electronico", "codigo cliente"),
)
# Identifiers that several people may share.
_SHARED = (
    *("phone", "surname", "first name", "last name", "full name"),
    *("vorname", "nachname", "familienname", "telefon", "telefonnummer", "handynummer"),
    *("prenom", "nom de famille", "telephone", "numero de telephone"),
    *("apellidos?", "telefono", "numero de telefono"),
)
# Of these the number, the key or the code is an identifier.
_ENGLISH = (
    "account|case|client|contract|customer|member|patient|policy|social security|student|employee|"
    "insurance|insured|invoice|tax|application"
)
_GERMAN = (
    "kunden?|versicherten|versicherungs?|sozialversicherungs|patienten?|matrikel|steuer|"
    "steueridentifikations?|identifikations|mitglieds?|mitglieder|vertrags?|policen?|konto|"
    "personal|mitarbeiter|ausweis|personalausweis|reisepass|fall|akten|antrags?|rechnungs|"
    "schuler|studenten|studierenden|aufnahme"
)
_FRENCH = (
    "client|patient|dossier|contrat|compte|adherent|assure|etudiant|eleve|membre|police|salarie|"
    "employe|securite sociale|secu|passeport"
)
_SPANISH = (
    "cliente|paciente|contrato|cuenta|expediente|socio|poliza|afiliado|empleado|alumno|estudiante|"
    "matricula|seguridad social|pasaporte|historia clinica"
)
# Whole names: each cell then names a person. Words such as "student" are often flags.
_PERSONS = (
    r"^(?:customer|client|patient|applicant|participant|respondent|person|user|"
    r"kunde|patientin|versicherter?|teilnehmer|kundin|cliente|paciente|participante)s?$"
)
_NAMES = r"^(?:name|nom|nombre)$"
_ROWS = r"^(?:index|unnamed [0-9 ]+)$"
_IDENTIFIER = re.compile(
    rf"(?:^|[^a-z])(?:{'|'.join((*_ALONE, *_SHARED))}|"
    rf"(?:{_ENGLISH}) (?:no|nr|num|number|key)|"
    rf"[a-z]*(?:{_GERMAN}) ?(?:nr|nummer|kennung)|"
    rf"(?:numero|num|no|n) (?:de |du |d )?(?:l |la )?(?:{_FRENCH})|"
    rf"(?:numero|num|nro|no) (?:de )?(?:la )?(?:{_SPANISH})"
    rf")(?:$|[^a-z])|{_PERSONS}|{_NAMES}|{_ROWS}"
)
# A flag, a share or a number of something: no identifier, whatever it is about.
_ABOUT = re.compile(
    r"^(?:has|have|had|is|was|owns|wants|pct|percent|percentage|share|number of|"
    r"hat|ist|anzahl|anteil|a un|nombre de|part de|tiene|cantidad de|porcentaje de) "
)
_OF_SEVERAL = re.compile(rf"(?:^| )(?:{'|'.join(_SHARED)})(?: |$)")
_NOT_OF_ONE = re.compile(rf"{_ROWS}|{_NAMES}")
_ACCENTS = re.compile("[\u0300-\u036f]")  # behind the letters that they belong to


def looks_like_an_identifier(name: Hashable) -> bool:
    """Whether a column's name is that of an identifier; no value is looked at."""
    words = words_of(name)
    return bool(_IDENTIFIER.search(words)) and not _ABOUT.match(words)


def may_name_persons(name: Hashable) -> bool:
    """Whether an identifier may say whose row it is: no phone, no name, no row number."""
    words = words_of(name)
    return looks_like_an_identifier(name) and not (
        _OF_SEVERAL.search(words) or _NOT_OF_ONE.match(words)
    )


def words_of(name: Hashable) -> str:
    """Words of a column's name, in small letters without accents."""
    split = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", str(name)).lower().replace("ß", "ss")
    letters = _ACCENTS.sub("", unicodedata.normalize("NFKD", split))
    return re.sub(r"[_\W]+", " ", letters)
